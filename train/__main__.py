"""`python -m train`."""

from train.train import main

if __name__ == "__main__":
    main()
